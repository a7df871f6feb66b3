-- seed: makes the counters of a tenant good after Redis lost some or all of its data, once per server life.
--
-- KEYS  1 seeded  string  run id of the Redis server under which the counters were made good
--       2 caps    hash    the tenant's own caps
--       3 day     hash    {b, n} of the tenant
--       4.. hour  hash    {b, n} of one agent each
-- ARGV  1 server run id  2 caps rev that the caller saw  3 last batch 0|1  4 length of a day, ms  5 length of an hour, ms
--       6 bucket of the day  7 its count  8 number of agents A, then A pairs (bucket, count) in the order of KEYS 4..
--       then the fields of the caps hash as pairs, or nothing to leave it as it is
-- Returns {'seeded'} | {'more'} (a batch before the last) | {'already'} (somebody was first, nothing written)
--      or {'caps_changed'} (caps were set since the caller read them, nothing written: read again)
-- Invariants
--   - A counter becomes max(seed, present) of the current window, never less: what was charged stays charged.
--   - A seed of another window is dropped: nothing can have been charged in a window that began while unseeded.
--   - The marker is written with the last batch; until then nobody charges, and batches may be repeated.
--   - Newer caps are never overwritten by older ones: setCaps changes rev.
-- Complexity O(A + F) for A agents and F fields of caps in the batch.

if redis.call('GET', KEYS[1]) == ARGV[1] then return {'already'} end
if (redis.call('HGET', KEYS[2], 'rev') or '') ~= ARGV[2] then return {'caps_changed'} end
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)

local function raise(key, length, bucket, count)
  local current = math.floor(now / length)
  if bucket ~= current or count <= 0 then return end
  local stored = redis.call('HMGET', key, 'b', 'n')
  local present = (tonumber(stored[1]) == current) and tonumber(stored[2]) or 0
  -- A later window than ours stands there already (the clock stepped back): admit stays in it, and so do we.
  if tonumber(stored[1]) == current + 1 or present >= count then return end
  redis.call('HSET', key, 'b', current, 'n', count)
  redis.call('PEXPIREAT', key, (current + 1) * length + 60000)
end

local dayMs, hourMs, agents = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[8])
raise(KEYS[3], dayMs, tonumber(ARGV[6]), tonumber(ARGV[7]))
for i = 1, agents do
  raise(KEYS[3 + i], hourMs, tonumber(ARGV[7 + 2 * i]), tonumber(ARGV[8 + 2 * i]))
end
if ARGV[3] ~= '1' then return {'more'} end

local first = 9 + 2 * agents
if ARGV[first] then
  redis.call('DEL', KEYS[2])
  for i = first, #ARGV, 2 do redis.call('HSET', KEYS[2], ARGV[i], ARGV[i + 1]) end
end
redis.call('SET', KEYS[1], ARGV[1])
return {'seeded'}
