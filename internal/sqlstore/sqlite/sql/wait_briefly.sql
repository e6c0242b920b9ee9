-- For the connection that writes, which does the rest of the waiting itself. In milliseconds.
PRAGMA busy_timeout = 25;
