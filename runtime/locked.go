package runtime

import (
	"context"
	"slices"
	"time"
)

// lockedInterval is how often to look whether a job is still locked.
const lockedInterval = time.Second

// mayLapse says whether a lock that is waited for as long as one may could outlast a claim: while its answer is held up along
// with that of a locked job, it is not renewed.
func (w *Worker) mayLapse(batch []answer) bool {
	return slices.ContainsFunc(batch, func(ans answer) bool { return ans.lease() < 2*w.client.BusyTimeout() })
}

// setAside takes the answers out of a batch whose jobs somebody has locked.
func (w *Worker) setAside(ctx context.Context, batch []answer, locked *[]answer) (free []answer) {
	found, free := w.lockedOf(ctx, batch)
	for _, ans := range found {
		ans.log().Warn("somebody's transaction has locked the job: its answer waits until that has ended",
			"answer", ans.Kind.String())
	}
	*locked = append(*locked, found...)
	return free
}

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
