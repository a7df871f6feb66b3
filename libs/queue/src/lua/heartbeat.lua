-- Purpose: a worker lives (or leaves): window, what it lost, what was cancelled, next picks.
-- KEYS[1]  any key of the tag (routing)
-- ARGV     1 worker, 2 total slots (-1: it leaves), 3 slots of interactive, 4 of routine, 5 running,
--          6 lock milliseconds, 7… pairs of id and fence that it runs
-- Returns  {'ok', releases, '<id> <fence>' it no longer owns, '<id> <fence>' cancelled, milliseconds to the next due or -1}
-- Invariants: the window is the sum over workers whose heartbeat is younger than the lock time.
-- Complexity: O(workers + running) plus the picks.
--- @include clock
--- @include pick
--- @include workers
local now, worker = now_ms(), ARGV[1]
if ARGV[2] == '-1' then
  redis.call('ZREM', K.beats, worker)
  redis.call('HDEL', K.workers, worker)
else
  redis.call('ZADD', K.beats, now, worker)
  redis.call('HSET', K.workers, worker, ARGV[2] .. '|' .. ARGV[3] .. '|' .. ARGV[4] .. '|' .. ARGV[5])
end
recount_window(now, tonumber(ARGV[6]))
local lost, cancelled = {}, {}
for i = 7, #ARGV, 2 do
  local x = redis.call('HMGET', K.record .. ARGV[i], 's', 'f', 'can')
  if x[1] ~= 'running' or x[2] ~= ARGV[i + 1] then
    lost[#lost + 1] = ARGV[i] .. ' ' .. ARGV[i + 1]
  elseif x[3] then
    cancelled[#cancelled + 1] = ARGV[i] .. ' ' .. ARGV[i + 1]
  end
end
return { 'ok', pick(now), lost, cancelled, next_due(now) }
