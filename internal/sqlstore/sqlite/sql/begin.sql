-- Immediate: a deferred transaction that reads and then writes fails at once if another process wrote in between.
BEGIN IMMEDIATE;
