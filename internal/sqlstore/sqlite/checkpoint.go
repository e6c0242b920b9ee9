package sqlite

import (
	"context"
	"os"
)

// walCare is what the writer knows of the size of the WAL.
type walCare struct {
	turns     int   // since the last look
	tolerated int64 // bytes up to which the file is left as it is; zero: the usual
}

// turnsPerLook is how many transactions go by between two looks at the size of the WAL: it grows by a few megabytes at most.
const turnsPerLook = 16

// triesPerTrim bounds the wait for readers, at the busy timeout of the connection each.
const triesPerTrim = 10

// trim empties the WAL when it has grown beyond what a checkpoint leaves of it. SQLite does so by itself only if at some
// moment nobody reads; with enough readers that moment never comes, and the file would grow for as long as they go on.
// This one waits for those who still need the WAL, while those who come meanwhile find more and more in the database: one
// try sees off the readers of older states, the next those who came during the first. A heartbeat ends the wait.
//
// A reader that stays in its transaction cannot be helped. So as not to wait for it in vain again and again, the next try
// comes when the file has grown by a quarter. What else may go wrong, the next write will tell. // K53
func (w *writer) trim() {
	if w.wal.turns++; w.wal.turns < turnsPerLook || w.conn == nil {
		return
	}
	w.wal.turns = 0
	info, err := os.Stat(w.files.path + "-wal") // a look at the folder: opens nothing
	if err != nil || info.Size() <= max(w.wal.tolerated, walSizeLimit) {
		return
	}
	w.wal.tolerated = info.Size() + info.Size()/4
	for range triesPerTrim {
		var busy, pages, moved int64
		_, err := w.on.one(context.Background(), "checkpoint", []any{&busy, &pages, &moved})
		if err == nil && busy == 0 {
			w.wal.tolerated = 0
		}
		if err != nil || busy == 0 || w.line.hurried() {
			return
		}
	}
}

// hurried says whether something urgent waits.
func (q *line) hurried() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting[urgent]) > 0
}
