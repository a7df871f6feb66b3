-- Writes that the calls of one script have in common, each made once for all of them by write_now. Whoever reads what one of them
-- changes calls that first, and a script that leaves any calls it at its end.
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

-- What else `command` is given for the key.
local function write_later(command, key, first, second)
  local writes = writes_of(command, key)
  writes[#writes + 1] = first
  writes[#writes + 1] = second
end

-- A field of a hash; the last value counts.
local function set_later(key, field, value)
  local writes = writes_of('HSET', key)
  local at = writes.at[field] or #writes + 2
  writes[at - 1], writes[at], writes.at[field] = field, value, at
end

-- The next number of a counter.
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
