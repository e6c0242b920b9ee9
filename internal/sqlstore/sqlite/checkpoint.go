package sqlite

import "context"

// trim empties the WAL when it has grown beyond what a checkpoint leaves of it. SQLite does so by itself only if at some
// moment nobody reads; with enough readers that moment never comes, and the file would grow for as long as they go on.
// This one waits, briefly, for those who still need the WAL, while those who come meanwhile find all in the database.
//
// A reader that stays in its transaction cannot be helped. So as not to wait for it in vain after each write, the next try
// comes when the file has grown by a quarter. What else may go wrong, the next write will tell. // K53
func (w *writer) trim() {
	size := w.files.walSize.Load()
	if w.conn == nil || size <= max(w.tolerated, walSizeLimit) {
		return
	}
	w.tolerated = size + size/4
	var busy, pages, moved int64
	if _, err := w.on.one(context.Background(), "checkpoint", []any{&busy, &pages, &moved}); err == nil && busy == 0 {
		w.tolerated = 0
	}
}
