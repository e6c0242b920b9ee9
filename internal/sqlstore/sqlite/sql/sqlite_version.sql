SELECT sqlite_version();
