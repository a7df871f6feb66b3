-- Purpose: keep the record of an attempt while Postgres is away.
-- KEYS[1]  record
-- ARGV     1 fence, 2 attempt record JSON
-- Returns  {'ok'} | {'fenced'}
-- Invariants: only the owner of an attempt writes its record; a repeated entry is harmless (the reader is idempotent).
-- Complexity: O(1).
local x = redis.call('HMGET', KEYS[1], 's', 'f')
if x[1] ~= 'running' or x[2] ~= ARGV[1] then return { 'fenced' } end
redis.call('XADD', K.outbox, '*', 'r', ARGV[2])
return { 'ok' }
