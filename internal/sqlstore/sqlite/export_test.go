package sqlite

import "database/sql"

// Pools are the statistics of the two pools of the store.
func (s *Store) Pools() (write, readers sql.DBStats) { return s.write.pool.Stats(), s.readers.Stats() }
