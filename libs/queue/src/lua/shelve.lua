-- Purpose: keep what one process knows of an execution's trace, for whoever asks soon.
-- KEYS[1]  any key of the tag (routing)
-- ARGV     1 id, 2 process, 3 spans as JSON, 4 traces kept at most, 5 milliseconds that one is kept
-- Returns  traces kept
-- Invariants: at most ARGV[4] traces are kept, the oldest go first; each expires by itself.
-- Complexity: O(log n) plus what goes.
--- @include clock
redis.call('HSET', K.trace .. ARGV[1], ARGV[2], ARGV[3])
redis.call('PEXPIRE', K.trace .. ARGV[1], ARGV[5])
redis.call('ZADD', K.traces, now_ms(), ARGV[1])
redis.call('PEXPIRE', K.traces, ARGV[5])
local kept = redis.call('ZCARD', K.traces)
if kept > tonumber(ARGV[4]) then
  local gone = redis.call('ZPOPMIN', K.traces, kept - tonumber(ARGV[4]))
  for i = 1, #gone, 2 do redis.call('UNLINK', K.trace .. gone[i]) end
  kept = tonumber(ARGV[4])
end
return kept
