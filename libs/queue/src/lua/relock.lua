-- Purpose: take a BullMQ lock back that expired while Redis was away, if the execution is still ours.
-- KEYS[1]  record
-- ARGV     1 fence, 2 lane, 3 BullMQ job id, 4 lock token, 5 lock milliseconds
-- Returns  {'ok'} | {'lost'}
-- Invariants: the fence decides who owns an execution; the lock only tells BullMQ not to redeliver.
-- Complexity: O(1).
--- @include bullmq
local x = redis.call('HMGET', KEYS[1], 's', 'f')
if x[1] ~= 'running' or x[2] ~= ARGV[1] then return { 'lost' } end
return { job_relock(ARGV[2], ARGV[3], ARGV[4], ARGV[5]) and 'ok' or 'lost' }
