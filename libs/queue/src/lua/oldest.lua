-- Purpose: since when the oldest waiting execution of each named tenant has been due.
-- KEYS[1]  any key of the tag (routing)
-- ARGV     tenants
-- Returns  {milliseconds since 1970, or '' if nothing was found…}
--          Looks at the executions that the tenant enqueued first: as many as it has outstanding (1000 at
--          most), and C.look_past more. It finds none only if more than C.look_past delayed ones, or more
--          than 1000 outstanding ones, were enqueued first.
-- Complexity: O((outstanding + C.look_past) * log n) per tenant.
local found = {}
for i, tenant in ipairs(ARGV) do
  local out = math.min(tonumber(redis.call('HGET', K.tenant .. tenant, 'n')) or 0, 1000)
  local ids = redis.call('ZRANGE', K.live .. tenant, 0, math.max(0, out) + C.look_past)
  local first
  for _, lane in ipairs(#ids > 0 and { 'interactive', 'routine' } or {}) do
    for _, since in ipairs(redis.call('ZMSCORE', K.waiting .. lane, unpack(ids))) do
      if since and (not first or tonumber(since) < first) then first = tonumber(since) end
    end
  end
  found[i] = first and string.format('%.0f', first) or ''
end
return found
