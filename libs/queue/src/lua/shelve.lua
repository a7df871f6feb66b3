-- Purpose: store one part of an execution's trace (a request, an attempt) for a short time.
-- KEYS[1]  any key of the tag (routing)
-- ARGV     1 id, 2 spans as JSON, 3 parts kept per execution, 4 traces kept at most, 5 milliseconds that a
--          trace is kept
-- Returns  number of traces kept
-- Invariants: keeps the last ARGV[3] parts of an execution and at most ARGV[4] traces, removing the oldest
--          first. Each trace expires by itself.
-- Complexity: O(log n) plus the removals.
--- @include clock
local key = K.trace .. ARGV[1]
local part = redis.call('HINCRBY', key, 'parts', 1)
redis.call('HSET', key, part % tonumber(ARGV[3]), ARGV[2])
redis.call('PEXPIRE', key, ARGV[5])
redis.call('ZADD', K.traces, now_ms(), ARGV[1])
redis.call('PEXPIRE', K.traces, ARGV[5])
local kept = redis.call('ZCARD', K.traces)
if kept > tonumber(ARGV[4]) then
  local gone = redis.call('ZPOPMIN', K.traces, kept - tonumber(ARGV[4]))
  for i = 1, #gone, 2 do redis.call('UNLINK', K.trace .. gone[i]) end
  kept = tonumber(ARGV[4])
end
return kept
