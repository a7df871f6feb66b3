-- announce: lists a session whose sandbox only its worker reaches, while that worker announces it.
--
-- KEYS  1 session  hash  owner, busy ('1' while an execution runs in it), entry (JSON)
--       2 tenant   zset, as in keep
-- ARGV  1 owner  2 entry, '' when it ended  3 busy  4 member of the tenant's zset  5 creation time, ms
--       6 how long it is listed, ms
-- Returns {'shown'} | {'removed'} | {'other'}: it is claimed, has an entry from keep, or is another worker's
-- Invariants
--   - A session that is claimed or has an entry from keep is never overwritten. A forgotten session (a fence
--     without an entry) may be overwritten: it was paused, and its worker has resumed it.
--   - A former owner that announces the end does not remove what a later owner lists.
-- Complexity O(log n) for n sessions of the tenant.

local x = redis.call('HMGET', KEYS[1], 'fence', 'owner', 'till', 'entry')
if x[1] then
  local t = redis.call('TIME')
  local is_held = x[3] and tonumber(x[3]) > t[1] * 1000 + math.floor(t[2] / 1000)
  if is_held or (x[4] and not x[2]) then return {'other'} end
end
if ARGV[2] == '' then
  if x[2] ~= ARGV[1] then return {'other'} end
  redis.call('DEL', KEYS[1])
  redis.call('ZREM', KEYS[2], ARGV[4])
  return {'removed'}
end
redis.call('HSET', KEYS[1], 'owner', ARGV[1], 'busy', ARGV[3], 'entry', ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[6])
redis.call('ZADD', KEYS[2], ARGV[5], ARGV[4])
if redis.call('PTTL', KEYS[2]) < tonumber(ARGV[6]) then redis.call('PEXPIRE', KEYS[2], ARGV[6]) end
return {'shown'}
