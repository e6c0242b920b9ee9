INSERT INTO sqlite_sequence (name, seq)
SELECT '__alkstore_live', 0 WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = '__alkstore_live');
