-- Purpose: what the scheduler knows of the named tenants: what they have waiting and running, their limits,
--          and their turn at each kind of worker.
-- KEYS[1]  any key of the tag (routing)
-- ARGV     tenants
-- Returns  {now, {tenant, outstanding, waiting in interactive, waiting in routine, delayed, parked until or
--          '', weight, concurrency, max_queued, turns}…}. `turns`: lane, kind, virtual time, virtual clock
--          and state of each lane and kind where it has a virtual time. States: `ring` (may be served),
--          `share` (in the ring, but leaves the slots to others), `out` (not in the ring).
-- Complexity: O(tenants * kinds * log n). One tenant takes about 10 us with one kind.
--- @include clock
--- @include slots
local LANES = { 'interactive', 'routine' }

-- Virtual clocks, the same for every tenant of this call.
local clocks = {}
local function clock_at(lane, kind)
  local name = lane .. ':' .. kind
  clocks[name] = clocks[name] or clock_of(lane, kind)
  return clocks[name]
end

-- Fractions are returned as text, because Redis truncates the numbers of a Lua reply to integers.
local function number(value) return string.format('%.17g', value) end

local fields = { 'n', 'q:interactive', 'q:routine', 'd', 'park', 'mean' }
local places = {}
for _, lane in ipairs(LANES) do
  for _, kind in ipairs(known_kinds()) do
    places[#places + 1] = { lane = lane, kind = kind, at = #fields + 1 }
    fields[#fields + 1] = 'vt:' .. lane .. ':' .. kind
    fields[#fields + 1] = 'n:' .. lane .. ':' .. kind
  end
end

local function describe_tenant(tenant)
  local s = redis.call('HMGET', K.tenant .. tenant, unpack(fields))
  local out = tonumber(s[1]) or 0
  local weight, concurrency, max_queued = limits_of(tenant)
  local turns = {}
  for _, place in ipairs(places) do
    local lane, kind = place.lane, place.kind
    local v, state = redis.call('ZSCORE', ring_of(lane, kind), tenant), 'ring'
    if not v then
      v, state = s[place.at], 'out'
    elseif has_its_share(lane, kind, tenant, out, tonumber(s[place.at + 1]) or 0, s[6]) then
      state = 'share'
    end
    if v then
      for _, value in ipairs({ lane, kind, v, number(clock_at(lane, kind)), state }) do
        turns[#turns + 1] = value
      end
    end
  end
  return { tenant, s[1] or '0', s[2] or '0', s[3] or '0', s[4] or '0', s[5] or '', number(weight),
    concurrency, max_queued, turns }
end

local reply = { now_ms() }
for i, tenant in ipairs(ARGV) do reply[i + 1] = describe_tenant(tenant) end
return reply
