SELECT file FROM pragma_database_list WHERE name = 'main';
