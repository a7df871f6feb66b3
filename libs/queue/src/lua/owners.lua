-- Purpose: list each named execution's tenant, and the time at which a worker took the execution.
-- KEYS[1]  any key of the tag (routing)
-- ARGV     ids
-- Returns  {{tenant, when a worker took it or ''}…}. An execution without a record is left out.
-- Complexity: O(ids).
local found = {}
for _, id in ipairs(ARGV) do
  local x = redis.call('HMGET', K.record .. id, 't', 's', 'tk')
  if x[1] then found[#found + 1] = { x[1], x[2] == 'running' and x[3] or '' } end
end
return found
