--- @include tenant
-- Ring of a lane: tenants that may be served, by virtual time. A tenant is in it exactly when it has a backlog in
-- the lane, is below its concurrency and is not parked. Outside of it, its virtual time rests in `vt:<lane>`.

local function ring_leave(lane, tenant)
  local v = redis.call('ZSCORE', K.ring .. lane, tenant)
  if v then
    redis.call('ZREM', K.ring .. lane, tenant)
    redis.call('HSET', K.tenant .. tenant, 'vt:' .. lane, v)
  end
end

-- Enters at max(lane's virtual clock, own virtual time): idling earns nothing, and debts stay.
local function ring_enter(lane, tenant)
  if redis.call('ZSCORE', K.ring .. lane, tenant) then return end
  if redis.call('EXISTS', K.turns .. lane .. ':' .. tenant) == 0 then return end
  local s = redis.call('HMGET', K.tenant .. tenant, 'n', 'park', 'vt:' .. lane)
  if s[2] then return end
  local _, concurrency = limits_of(tenant)
  if (tonumber(s[1]) or 0) >= concurrency then return end
  local clock = tonumber(redis.call('HGET', K.clock, 'v:' .. lane)) or 0
  redis.call('ZADD', K.ring .. lane, math.max(clock, tonumber(s[3]) or 0), tenant)
end

local function ring_enter_lanes(tenant)
  local queued = redis.call('HMGET', K.tenant .. tenant, 'q:interactive', 'q:routine')
  if (queued[1] or '0') ~= '0' then ring_enter('interactive', tenant) end
  if (queued[2] or '0') ~= '0' then ring_enter('routine', tenant) end
end
