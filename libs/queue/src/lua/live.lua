-- Purpose: executions of a tenant that have not ended, newest first.
-- KEYS[1]  any key of the tag (routing)
-- ARGV     1 tenant, 2 limit
-- Returns  list of descriptions (include/describe.lua)
-- Complexity: O(limit * log n).
--- @include clock
--- @include describe
local now, found = now_ms(), {}
for _, id in ipairs(redis.call('ZREVRANGE', K.live .. ARGV[1], 0, tonumber(ARGV[2]) - 1)) do
  found[#found + 1] = describe(id, now)
end
return found
