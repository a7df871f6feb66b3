-- claim: claims a session that nobody holds.
--
-- KEYS  1 session  hash  fence, holder, till (end of the lease, ms), epoch (highest ever kept), entry (JSON)
-- ARGV  1 holder  2 lease, ms  3 how long a session without an entry is kept, ms
-- Returns {'held', milliseconds until the lease ends}
--         | {'claimed', fence, next epoch, entry or '', the server's clock, ms}
-- Invariants
--   - The fence is above every earlier fence of the session, and at least the server's clock in microseconds,
--     which no two claims share. So it rises even after the key was lost, unless the clock was set back.
--   - The next epoch is above every stored epoch, and above every epoch that a former holder was told.
-- Complexity O(1).

local t = redis.call('TIME')
local micros = t[1] * 1000000 + t[2]
local now = math.floor(micros / 1000)
local x = redis.call('HMGET', KEYS[1], 'fence', 'holder', 'till', 'epoch', 'entry')
if x[2] and tonumber(x[3]) > now then return {'held', tonumber(x[3]) - now} end
local epoch = tonumber(x[4] or '0') + 1
local fence = math.max(tonumber(x[1] or '0') + 1, epoch, micros)
redis.call('HDEL', KEYS[1], 'owner', 'busy')
redis.call('HSET', KEYS[1], 'fence', string.format('%d', fence), 'holder', ARGV[1],
  'till', string.format('%d', now + tonumber(ARGV[2])))
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[3]) then redis.call('PEXPIRE', KEYS[1], ARGV[3]) end
return {'claimed', fence, fence, x[5] or '', now}
