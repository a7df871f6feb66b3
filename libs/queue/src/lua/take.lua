-- Purpose: a worker got the BullMQ job of a release; it becomes the owner.
-- KEYS[1]  record
-- ARGV     1 release of the job, 2 worker
-- Returns  {'taken', fence, attempt, enqueued ms, now, traceparent, began JSON or '', request JSON, '1' when
--          cancelled, deliveries, tenant} | {'stale'}
-- Invariants: each take raises the fence, so every write of an earlier owner fails. The attempt number stays the
--          same until `requeue` ends the attempt. A job of an ended, requeued or re-released execution is stale.
-- Complexity: O(1).
--- @include clock
local x = redis.call('HMGET', KEYS[1], 's', 'rel', 'at', 'eq', 'tp', 'bg', 'req', 'can', 't')
if (x[1] ~= 'released' and x[1] ~= 'running') or x[2] ~= ARGV[1] then return { 'stale' } end
local now = now_ms()
local fence = redis.call('HINCRBY', KEYS[1], 'f', 1)
local deliveries = redis.call('HINCRBY', KEYS[1], 'd', 1)
local attempt = math.max(1, tonumber(x[3]))
redis.call('HSET', KEYS[1], 's', 'running', 'w', ARGV[2], 'tk', now, 'at', attempt)
return { 'taken', fence, attempt, x[4], now, x[5], x[6] or '', x[7], x[8] and '1' or '', deliveries, x[9] }
