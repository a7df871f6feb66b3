-- The life of the server: its run id, of which eight of forty hex digits tell lives apart and cost a waiting execution little. A
-- server that came back may have lost its last second (AOF everysec), a promoted replica what it had not received: both have
-- another. '' where the server hides it, and then nothing is noticed. Asked here (4 us) and not told by the caller: what a broken
-- connection left unanswered is sent again, with what was true of the server before.
local life_asked
local function life()
  if not life_asked then
    local info = redis.pcall('INFO', 'server')
    local run = type(info) == 'string' and string.match(info, 'run_id:(%x+)') or ''
    life_asked = string.sub(run, 1, 8)
  end
  return life_asked
end
