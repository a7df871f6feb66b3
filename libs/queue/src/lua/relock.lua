-- Purpose: lock a BullMQ job again whose lock expired while Redis was away, if the worker still owns it.
-- KEYS[1]  record
-- ARGV     1 fence, 2 lane, 3 BullMQ job id, 4 lock token, 5 lock milliseconds
-- Returns  {'ok'} | {'lost'}
-- Invariants: the fence decides who owns an execution. The lock only keeps BullMQ from redelivering it.
-- Complexity: O(1).
--- @include bullmq
local x = redis.call('HMGET', KEYS[1], 's', 'f')
if x[1] ~= 'running' or x[2] ~= ARGV[1] then return { 'lost' } end
return { job_relock(ARGV[2], ARGV[3], ARGV[4], ARGV[5]) and 'ok' or 'lost' }
