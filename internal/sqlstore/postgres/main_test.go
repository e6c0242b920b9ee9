package postgres_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/alkstore/alkworker/internal/sqlstore/postgres/pgtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(pgtest.Main(m)) }
