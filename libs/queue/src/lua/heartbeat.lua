-- Purpose: a worker lives (or leaves): window, what it lost, what was cancelled; the next are released.
-- KEYS[1]  any key of the tag (routing)
-- ARGV     1 worker, 2 slots that it can fill (-1: it leaves, 0: it drains), 3 of them for interactive, 4 for routine,
--          5 running, 6 lock milliseconds, 7 slots that it has, 8 its kind, 9 what workers of the kind offer
--          (include/kinds.lua), 10… pairs of id and fence that it runs
-- Returns  {'ok', '<id> <fence>' it no longer owns, '<id> <fence>' cancelled, milliseconds to the next due
--          or -1, executions in its hand of interactive, of routine}
-- Invariants: the window is the sum over workers whose heartbeat is younger than the lock time; what is released beyond it
--          comes back (include/recall.lua). The hand of one that
--          drains or leaves goes back to the fair queue. A heartbeat renews the locks of what was taken from the hand.
-- Complexity: O(workers + running) plus the picks.
--- @include clock
--- @include pick
--- @include recall
--- @include workers
local now, worker, kind = now_ms(), ARGV[1], ARGV[8]
local known = redis.call('HGET', K.workers, worker)
if ARGV[2] == '-1' then
  if hand_return(worker) then redis.call('ZREM', K.beats, worker) else redis.call('ZADD', K.beats, 0, worker) end
  redis.call('HDEL', K.workers, worker)
else
  redis.call('ZADD', K.beats, now, worker)
  redis.call('HSET', K.workers, worker, table.concat({ ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7], kind }, '|'))
  kind_seen(kind, ARGV[9], known and string.match(known, '|([^|]*)$'), now)
  if ARGV[2] == '0' then hand_return(worker) end
end
recount_window(now, tonumber(ARGV[6]))
recall_surplus(now)
local lost, cancelled = {}, {}
for i = 10, #ARGV, 2 do
  local x = redis.call('HMGET', K.record .. ARGV[i], 's', 'f', 'can', 'dw')
  if x[1] ~= 'running' or x[2] ~= ARGV[i + 1] then
    lost[#lost + 1] = ARGV[i] .. ' ' .. ARGV[i + 1]
  else
    if x[3] then cancelled[#cancelled + 1] = ARGV[i] .. ' ' .. ARGV[i + 1] end
    if x[4] then redis.call('HSET', K.record .. ARGV[i], 'dw', now) end
  end
end
pick(now)
return { 'ok', lost, cancelled, next_due(now),
  redis.call('ZCARD', K.handed .. 'interactive:' .. worker), redis.call('ZCARD', K.handed .. 'routine:' .. worker) }
