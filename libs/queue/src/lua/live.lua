-- Purpose: list executions that have not ended, of one tenant or of all, newest first.
-- KEYS[1]  any key of the tag (routing)
-- ARGV     1 tenant or '' for all, 2 limit, 3 cursor from the page before, or ''
-- Returns  {list of descriptions (include/describe.lua), cursor or ''}
-- Complexity: O(limit * log n).
--- @include clock
--- @include describe
local now, found, last = now_ms(), {}, ''
local key = ARGV[1] == '' and K.all_live or K.live .. ARGV[1]
local below = ARGV[3] == '' and '+inf' or '(' .. ARGV[3]
local page = redis.call('ZREVRANGEBYSCORE', key, below, '-inf', 'WITHSCORES', 'LIMIT', 0, ARGV[2])
for i = 1, #page, 2 do
  found[#found + 1] = describe(page[i], now)
  last = page[i + 1]
end
return { found, last }
