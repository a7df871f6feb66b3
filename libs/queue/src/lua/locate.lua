-- Purpose: describe one execution.
-- KEYS[1]  record
-- ARGV     1 id
-- Returns  {'found', description (include/describe.lua), result JSON or '', now} | {'not_found'}
-- Complexity: O(log n).
--- @include clock
--- @include describe
local now = now_ms()
local found = describe(ARGV[1], now)
if not found then return { 'not_found' } end
return { 'found', found, found[4] == 'ended' and redis.call('GET', K.result .. ARGV[1]) or '', now }
