-- Limits of a tenant: weight, concurrency, depth. Stored as `w|c|m`, where an empty part means the default. A
-- script caches them: only limits.lua changes them, and it does so before it reads them.
local limits_read = {}
local function limits_of(tenant)
  local raw = limits_read[tenant]
  if raw == nil then
    raw = redis.call('HGET', K.limits, tenant)
    limits_read[tenant] = raw
  end
  if not raw then return C.weight, C.concurrency, C.max_queued end
  local w, c, m = string.match(raw, '^([^|]*)|([^|]*)|([^|]*)$')
  return tonumber(w) or C.weight, tonumber(c) or C.concurrency, tonumber(m) or C.max_queued
end

local function has_own_concurrency(tenant)
  limits_of(tenant)
  local raw = limits_read[tenant]
  return raw and string.match(raw, '^[^|]*|([^|]*)|') ~= '' or false
end

-- Returns a tenant's number of waiting executions, and the state at a kind that enqueue.lua needs for a
-- direct release.
local function waiting_of(tenant, lane, kind)
  local s = redis.call('HMGET', K.tenant .. tenant, 'q:interactive', 'q:routine', 'd', 'n', 'park', 'mean',
    'vt:' .. lane .. ':' .. kind, 'n:' .. lane .. ':' .. kind)
  local waiting = (tonumber(s[1]) or 0) + (tonumber(s[2]) or 0) + (tonumber(s[3]) or 0)
  local state = { outstanding = tonumber(s[4]) or 0, is_parked = s[5], mean = s[6] }
  state.v, state.here = tonumber(s[7]) or 0, tonumber(s[8]) or 0
  return waiting, state
end

-- Lets the state of a tenant expire when it has nothing queued or running.
local function expire_if_idle(tenant)
  for _, count in pairs(redis.call('HMGET', K.tenant .. tenant, 'n', 'q:interactive', 'q:routine', 'd')) do
    if count and tonumber(count) > 0 then return end
  end
  redis.call('PEXPIRE', K.tenant .. tenant, C.idle_tenant_ttl)
end
