package runtime

import (
	"context"
	"slices"
	"time"
)

// lockedInterval is how often to look whether a job is still locked.
const lockedInterval = time.Second

// lockedOf sorts answers by whether somebody has locked their jobs. As far as that is not to be found out, nobody has.
func (w *Worker) lockedOf(ctx context.Context, batch []answer) (locked, free []answer) {
	ids := make([]int64, len(batch))
	for i, ans := range batch {
		ids[i] = ans.job.ID
	}
	found, err := w.client.Locked(ctx, ids...)
	if err != nil || len(found) == 0 {
		return nil, batch // to write them meets the same trouble, and reports it
	}
	for _, ans := range batch {
		if slices.Contains(found, ans.job.ID) {
			locked = append(locked, ans)
		} else {
			free = append(free, ans)
		}
	}
	return locked, free
}
