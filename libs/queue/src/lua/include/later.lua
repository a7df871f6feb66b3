-- Deferred writes: calls gathered into one script often write the same keys, and write_now makes each of
-- these writes once for all of them. Code that reads such a key calls write_now first, and a script that
-- defers writes calls it at its end.
local later, counted = {}, {}

local function writes_of(command, key)
  local writes = later[command .. key]
  if not writes then
    writes = { command, key, at = {} }
    later[command .. key] = writes
    later[#later + 1] = writes
  end
  return writes
end

-- Adds arguments to the deferred `command` for a key.
local function write_later(command, key, first, second)
  local writes = writes_of(command, key)
  writes[#writes + 1] = first
  writes[#writes + 1] = second
end

-- Defers a field of a hash; the last value wins.
local function set_later(key, field, value)
  local writes = writes_of('HSET', key)
  local at = writes.at[field] or #writes + 2
  writes[at - 1], writes[at], writes.at[field] = field, value, at
end

-- Returns the next number of a counter.
local function count_later(key)
  local count = counted[key]
  if not count then
    count = { last = redis.call('INCR', key), more = 0 }
    counted[key] = count
  else
    count.last, count.more = count.last + 1, count.more + 1
  end
  return count.last
end

local function write_now()
  local writes, counts = later, counted
  later, counted = {}, {}
  for _, write in ipairs(writes) do redis.call(unpack(write)) end
  for key, count in pairs(counts) do
    if count.more > 0 then redis.call('INCRBY', key, count.more) end
  end
end
