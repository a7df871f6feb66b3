--- @include tenant
--- @include kinds
-- Each kind of worker serves tenants in its own order. The ring of a lane and a kind is a sorted set of the
-- tenants that may be served there, by the virtual time that they used of the kind. A tenant is in it exactly
-- when it has a backlog that the kind can serve, is below its concurrency limit and is not parked. Otherwise
-- `vt:<lane>:<kind>` of the tenant keeps the time. Kinds advance at different speeds, so each has a virtual
-- time of its own.

-- Classes of a lane in which a tenant has a backlog. O(such classes); one if all workers are of one kind.
local function classes_of(lane, tenant)
  local classes = redis.call('SMEMBERS', K.classes .. lane .. ':' .. tenant)
  if redis.call('EXISTS', K.turns .. lane .. ':' .. tenant) == 1 then classes[#classes + 1] = lane end
  return classes
end

local function serves_any(kind, classes)
  for _, class in ipairs(classes) do
    if serves(kind, need_of_class(class)) then return true end
  end
  return false
end

local function ring_of(lane, kind) return K.ring .. lane .. ':' .. kind end

local function ring_leave_kind(lane, tenant, kind)
  local v = redis.call('ZSCORE', ring_of(lane, kind), tenant)
  if v then
    redis.call('ZREM', ring_of(lane, kind), tenant)
    redis.call('HSET', K.tenant .. tenant, 'vt:' .. lane .. ':' .. kind, v)
  end
end

local function ring_leave(lane, tenant)
  for _, kind in ipairs(known_kinds()) do ring_leave_kind(lane, tenant, kind) end
end

local function clock_of(lane, kind)
  return tonumber(redis.call('HGET', K.clock, 'v:' .. lane .. ':' .. kind)) or 0
end

-- Adds a tenant at the later of the kind's clock and its own virtual time. So being idle gives no advantage,
-- and slot time already used still counts.
local function ring_enter(lane, tenant)
  local classes, s
  for _, kind in ipairs(known_kinds()) do
    if not redis.call('ZSCORE', ring_of(lane, kind), tenant) then
      if not classes then
        classes = classes_of(lane, tenant)
        if #classes == 0 then return end
        s = redis.call('HMGET', K.tenant .. tenant, 'n', 'park')
        if s[2] then return end
        local _, concurrency = limits_of(tenant)
        if (tonumber(s[1]) or 0) >= concurrency then return end
      end
      if serves_any(kind, classes) then
        local own = tonumber(redis.call('HGET', K.tenant .. tenant, 'vt:' .. lane .. ':' .. kind)) or 0
        redis.call('ZADD', ring_of(lane, kind), math.max(clock_of(lane, kind), own), tenant)
      end
    end
  end
end

local function ring_enter_lanes(tenant)
  local queued = redis.call('HMGET', K.tenant .. tenant, 'q:interactive', 'q:routine')
  if (queued[1] or '0') ~= '0' then ring_enter('interactive', tenant) end
  if (queued[2] or '0') ~= '0' then ring_enter('routine', tenant) end
end

-- Removes a tenant from the rings of kinds that can serve nothing in its remaining backlog.
local function ring_trim(lane, tenant)
  local classes = classes_of(lane, tenant)
  if #classes == 0 then redis.call('ZREM', K.queued .. lane, tenant) end
  for _, kind in ipairs(known_kinds()) do
    if not serves_any(kind, classes) then ring_leave_kind(lane, tenant, kind) end
  end
end
