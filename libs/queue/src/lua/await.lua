-- Purpose: register a waiter, or answer it at once.
-- KEYS[1]  record
-- ARGV     1 id, 2 reply channel
-- Returns  {'ended', result JSON or ''} | {'waiting'} | {'not_found'}
-- Invariants: either the result exists, or the channel is in the set that the ending reads.
-- Complexity: O(1).
local state = redis.call('HGET', KEYS[1], 's')
if not state or state == 'ended' then
  local result = redis.call('GET', K.result .. ARGV[1])
  if result then return { 'ended', result } end
  return { 'not_found' }
end
redis.call('SADD', K.waiters .. ARGV[1], ARGV[2])
redis.call('PEXPIRE', K.waiters .. ARGV[1], C.waiter_ttl)
return { 'waiting' }
