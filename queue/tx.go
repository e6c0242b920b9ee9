package queue

import "github.com/alkstore/alkworker/internal/sqlstore"

// Tx is a transaction of the caller that database/sql knows nothing of. Package pgxtx makes one of a pgx.Tx. The zero
// value is refused.
type Tx struct{ tx sqlstore.Tx }

// NewTx is for the packages of this module that know other kinds of transactions.
func NewTx(tx any) Tx { return Tx{tx} }
