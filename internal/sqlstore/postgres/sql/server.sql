-- What stands at the other end: its version, the process as the server itself knows it, whether it can write, and how it
-- encodes texts.
SELECT
    CAST(current_setting('server_version_num') AS integer), pg_backend_pid(),
    pg_is_in_recovery() OR CAST(current_setting('transaction_read_only') AS boolean), current_setting('server_encoding');
