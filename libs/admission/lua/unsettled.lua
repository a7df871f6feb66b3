-- unsettled: attempts of a tenant with a reservation or a lease, which may still need a settlement.
--
-- KEYS  1 open    hash  member -> "day:cpu:cost" reserved
--       2 leases  zset  member -> expiry, milliseconds
-- Returns {'unsettled', member...}, each once
-- Complexity O(N) for N such attempts: about as many as run at once.

local reply, seen = {'unsettled'}, {}
local function add(members)
  for _, member in ipairs(members) do
    if not seen[member] then reply[#reply + 1] = member end
    seen[member] = true
  end
end
add(redis.call('HKEYS', KEYS[1]))
add(redis.call('ZRANGE', KEYS[2], 0, -1))
return reply
