-- refund: refunds the charge of an attempt in which no user code began.
--
-- KEYS  1 charge  string  ledger entry "day:hour:charged_at:agent:token that charged:token that owns"
--       2 day     hash    {b, n} of the tenant
--       3 hour    hash    {b, n} of the tenant's agent
--       4 open    hash    member -> "day:cpu:cost" reserved
-- ARGV  1 token of the admission that is undone, or '' for any owner of the charge
--       2 1 to refund only what this admission charged, 0 to refund also what it found charged  3 member
--       4 fence of the caller, '' for none: without a token it cannot refund what a later owner has
-- Returns {'refunded'} | {'not_charged'} (never charged, or refunded before) | {'not_owner'} (admitted again)
-- Invariants
--   - The refund deletes the ledger entry, so a second call changes nothing.
--   - The reservation of the attempt is removed, and nothing of it counts as used.
--   - A counter is lowered only while it still counts the window of the charge.
--   - The rate limit is not refunded, because it bounds starts and the attempt was started.
-- Complexity O(1).

local entry = redis.call('GET', KEYS[1])
if not entry then return {'not_charged'} end
local day, hour, charger, owner = string.match(entry, '^(%d+):(%d+):%d+:.-([^:]*):([^:]*)$')
if ARGV[1] ~= '' and ARGV[1] ~= owner then return {'not_owner'} end
local fence = tonumber(ARGV[4])
local ownerFence = tonumber(string.match(owner, '^(%d+)~') or 0)
if ARGV[1] == '' and fence and fence < ownerFence then return {'not_owner'} end
if ARGV[2] == '1' and ARGV[1] ~= charger then return {'not_owner'} end
redis.call('DEL', KEYS[1])
local function lower(key, bucket)
  local stored = redis.call('HMGET', key, 'b', 'n')
  if stored[1] == bucket and tonumber(stored[2]) > 0 then redis.call('HINCRBY', key, 'n', -1) end
end
lower(KEYS[2], day)
lower(KEYS[3], hour)
local held = redis.call('HGET', KEYS[4], ARGV[3])
if held then
  redis.call('HDEL', KEYS[4], ARGV[3])
  local cpu, cost = string.match(held, '^%d+:(%d+):(%d+)$')
  if string.match(held, '^%d+') == redis.call('HGET', KEYS[2], 'b') then
    redis.call('HINCRBY', KEYS[2], 'cr', 0 - tonumber(cpu))
    redis.call('HINCRBY', KEYS[2], 'mr', 0 - tonumber(cost))
  end
end
return {'refunded'}
