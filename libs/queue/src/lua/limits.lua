-- Purpose: set the limits of a tenant, from the next pick on, and unpark it. Callers write limits after every
--          change of caps, and the cap that the tenant is parked for may have been raised.
-- KEYS[1]  any key of the tag (routing)
-- ARGV     1 tenant, 2 weight or '', 3 concurrency or '', 4 max_queued or '' ('' means the default)
-- Returns  {'ok'}
-- Invariants: a raised limit lets a waiting tenant enter the rings at once. A lowered limit never stops what
--          already runs. A tenant that was unparked too early is parked again at its next refusal.
-- Complexity: O(log n) plus the picks.
--- @include clock
--- @include pick
if ARGV[2] == '' and ARGV[3] == '' and ARGV[4] == '' then
  redis.call('HDEL', K.limits, ARGV[1])
else
  redis.call('HSET', K.limits, ARGV[1], ARGV[2] .. '|' .. ARGV[3] .. '|' .. ARGV[4])
end
redis.call('HDEL', K.tenant .. ARGV[1], 'park')
redis.call('ZREM', K.parked, ARGV[1])
ring_enter_lanes(ARGV[1])
pick(now_ms())
return { 'ok' }
