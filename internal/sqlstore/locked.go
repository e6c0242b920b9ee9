package sqlstore

import "context"

// RowLocker is a store in which a transaction locks single jobs. One that stays open holds up whoever wants to end the claim
// of such a job, and all that is written in the same call.
type RowLocker interface {
	Store

	// Locked says which of these jobs a transaction has locked now. It does not wait for any.
	Locked(ctx context.Context, ids []int64) ([]int64, error)
}
