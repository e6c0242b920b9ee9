SELECT EXISTS (SELECT 1 FROM pragma_table_info(:table) WHERE name = :column);
