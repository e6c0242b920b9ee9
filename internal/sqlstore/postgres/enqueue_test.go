package postgres_test

import (
	"reflect"
	"testing"

	"github.com/alkstore/alkworker/internal/sqlstore"
	"github.com/alkstore/alkworker/internal/sqlstore/postgres"
	"github.com/alkstore/alkworker/internal/sqlstore/postgres/pgtest"
)

// Jobs that differ in their payloads only take another statement than others: a job must be stored as it is, whatever it
// comes along with. // E6
func TestJobsOfOneCall(t *testing.T) {
	db, ok := pgtest.New(t)
	if !ok {
		return
	}
	s := open(t, db.DSN(), postgres.Options{Clock: func() int64 { return 1_800_000_000 }})
	stored := func(t *testing.T, together ...sqlstore.NewJob) (rows []sqlstore.Row) {
		t.Helper()
		ids := must(s.Enqueue(t.Context(), together))(t)
		if len(ids) != len(together) {
			t.Fatalf("got %d ids of %d jobs", len(ids), len(together))
		}
		for i, id := range ids {
			if i > 0 && id <= ids[i-1] {
				t.Errorf("ids are %v, want them ascending", ids)
			}
			r := *must(s.GetJob(t.Context(), id))(t)
			r.ID = 0
			rows = append(rows, r)
		}
		return rows
	}
	base := newJob("q")
	for _, path := range leaves(reflect.TypeFor[sqlstore.NewJob](), nil) {
		t.Run(reflect.TypeFor[sqlstore.NewJob]().FieldByIndex(path).Name, func(t *testing.T) {
			other := base
			change(t, reflect.ValueOf(&other).Elem().FieldByIndex(path))
			for _, pair := range [][2]sqlstore.NewJob{{base, other}, {other, base}, {other, other}} {
				got := stored(t, pair[0], pair[1])
				want := append(stored(t, pair[0]), stored(t, pair[1])...)
				if !reflect.DeepEqual(got, want) {
					t.Errorf("got %+v, want %+v", got, want)
				}
			}
			if reflect.DeepEqual(stored(t, base), stored(t, other)) {
				t.Error("the change is not stored")
			}
		})
	}
}

// leaves are the fields of a struct, and of those in it.
func leaves(of reflect.Type, path []int) (all [][]int) {
	for i := range of.NumField() {
		at := append(append([]int(nil), path...), i)
		if f := of.Field(i); f.Type.Kind() == reflect.Struct {
			all = append(all, leaves(f.Type, at)...)
		} else {
			all = append(all, at)
		}
	}
	return all
}

// change gives a field a value that it does not have.
func change(t *testing.T, field reflect.Value) {
	t.Helper()
	switch field.Interface().(type) {
	case string:
		field.SetString(field.String() + "x")
	case []byte:
		field.SetBytes([]byte("other"))
	case int64:
		field.SetInt(field.Int() + 1)
	case *int64:
		field.Set(reflect.ValueOf(new(int64(1_900_000_000))))
	default:
		t.Fatalf("no value for a field of type %v", field.Type())
	}
}
