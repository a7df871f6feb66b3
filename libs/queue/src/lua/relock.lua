-- Purpose: take a BullMQ lock back that expired while Redis was away, if the execution is still ours.
-- KEYS[1]  record
-- ARGV     1 fence, 2 lane, 3 BullMQ job id, 4 lock token, 5 lock milliseconds
-- Returns  {'ok'} | {'lost'}
-- Invariants: the fence decides who owns an execution; the lock only tells BullMQ not to redeliver.
-- Complexity: O(1).
local x = redis.call('HMGET', KEYS[1], 's', 'f')
if x[1] ~= 'running' or x[2] ~= ARGV[1] then return { 'lost' } end
local job = K.bull .. ARGV[2] .. ':' .. ARGV[3]
if redis.call('EXISTS', job) == 0 then return { 'lost' } end
local token = redis.call('GET', job .. ':lock')
if token and token ~= ARGV[4] then return { 'lost' } end
redis.call('SET', job .. ':lock', ARGV[4], 'PX', ARGV[5])
redis.call('SREM', K.bull .. ARGV[2] .. ':stalled', ARGV[3])
return { 'ok' }
