-- Runs `accept`, the body of enqueue.lua, and decides in the same step how long the blobs of the request
-- live. The producer stored them before, for a short life. So no moment exists in which an accepted execution
-- has blobs with a short life, even if the producer dies, and a refused call leaves none.
-- KEYS[2..]  blobs of the request, first those that this call created
-- ARGV       the last one, only with blobs: how many this call created
-- Returns    {'missing'} when a blob is gone: nothing was accepted, store the blobs again. Else what `accept`
--            returns.
-- Invariants: a record exists if and only if its execution was accepted. A blob lives longer than the short
--            life if an accepted execution uses it: its acceptance and every take set the full life, and
--            bounds.ts says why no execution outlives that. A refused call removes the blobs that it
--            created. Another call that uses one of them finds it missing here and stores it again.
-- Complexity: O(blobs)
if #KEYS == 1 then return accept(KEYS, ARGV) end

local created = tonumber(table.remove(ARGV))
for at = 2, #KEYS do
  if redis.call('EXISTS', KEYS[at]) == 0 then return { 'missing' } end
end
local is_done, reply = pcall(accept, KEYS, ARGV)
-- Checks the record and not the reply: if `accept` failed midway, what it wrote before stays.
if redis.call('EXISTS', KEYS[1]) == 1 then
  for at = 2, #KEYS do redis.call('PEXPIRE', KEYS[at], C.blob_ttl) end
else
  for at = 2, created + 1 do
    local left = redis.call('PTTL', KEYS[at])
    if left >= 0 and left <= C.unaccepted_blob_ttl then redis.call('UNLINK', KEYS[at]) end
  end
end
if not is_done then error(reply, 0) end
return reply
