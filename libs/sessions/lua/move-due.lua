-- move-due: corrects the time of a session's next check, unless its holder wrote another one meanwhile.
--
-- KEYS  1 due  zset  '<tenant>:<key>' -> time of the next check, ms
-- ARGV  1 member  2 the time that was read  3 the new time, '' to remove the member
-- Returns {'moved'} | {'changed'}
-- Complexity O(log n) for n sessions of the backend.

local score = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not score or tonumber(score) ~= tonumber(ARGV[2]) then return {'changed'} end
if ARGV[3] == '' then
  redis.call('ZREM', KEYS[1], ARGV[1])
else
  redis.call('ZADD', KEYS[1], ARGV[3], ARGV[1])
end
return {'moved'}
