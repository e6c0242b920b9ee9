-- The one clock (T1).
SELECT unixepoch();
