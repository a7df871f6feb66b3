-- Purpose: cancel an execution, or end one that waited too long.
-- KEYS[1]  record
-- ARGV     1 id, 2 attempt that the composed record names, 3 result JSON, 4 JSON of the `ended` event after
--          its at_ms, 5 attempt record JSON for the outbox, 6 reason, 7 '1' to cancel a running one too
-- Returns  {'cancelled'}   no owner had it, and it has ended: result, waiters and outbox entry in one step
--          {'cancelling'}  an owner has it: sets a flag for `begin` and the heartbeat, and sends a message
--          {'began'}       it waits, but a former owner may have begun or recorded it: the next owner decides
--          {'ended'} | {'not_found'} | {'changed'} (compose again for another attempt, or it runs now)
-- Invariants: the outbox entry exists exactly when this script ended the execution. The BullMQ job becomes
--          stale, and `take` deletes it.
-- Complexity: O(log n + waiters) plus the picks.
--- @include clock
--- @include pick
--- @include ending
local id = ARGV[1]
local x = redis.call('HMGET', KEYS[1], 's', 't', 'a', 'l', 'at', 'est', 'sk', 'hd', 'pre', 'bg', 'd', 'cb',
  'eq', 'wc', 'k')
local state, tenant, lane = x[1], x[2], x[4]
if not state then return { 'not_found' } end
if state == 'ended' then return { 'ended' } end
if state == 'running' then
  if ARGV[7] ~= '1' then return { 'changed' } end
  redis.call('HSET', KEYS[1], 'can', ARGV[6])
  redis.call('PUBLISH', K.control, 'cancel ' .. id)
  return { 'cancelling' }
end
if x[10] or tonumber(x[11]) > 0 then
  -- A former owner died or lost the execution, which was then put back. User code may have begun, or the
  -- audit row may exist. The next owner checks both and ends the execution.
  if ARGV[7] ~= '1' then return { 'began' } end
  redis.call('HSET', KEYS[1], 'can', ARGV[6])
  return { 'cancelling' }
end
if math.max(1, tonumber(x[5])) ~= tonumber(ARGV[2]) then return { 'changed' } end
local now = now_ms()
if state == 'delayed' then
  redis.call('ZREM', K.delayed .. lane, id)
  redis.call('HINCRBY', K.tenant .. tenant, 'd', -1)
elseif state == 'queued' then
  leave_queue(lane, tenant, x[3], id, x[7], x[8])
  if x[9] then charge(lane, tenant, x[15], -tonumber(x[9]) / limits_of(tenant)) end
else
  slot_free(lane, tenant, id, x[15], tonumber(x[6]))
end
session_leave(x[7], id)
expire_if_idle(tenant)
redis.call('XADD', K.outbox, '*', 'r', ARGV[5])
finish(id, tenant, ARGV[3], ARGV[4], now, x[12], x[14], x[13])
write_now()
pick(now)
return { 'cancelled' }
