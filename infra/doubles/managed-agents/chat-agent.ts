/** The agent of sessions without a script: it turns each message into a tool use, or answers with help. */
import { HELP, parseLine } from './chat-commands.ts'
import type { AgentProgram } from './scripted-agent.ts'

export const chatAgent: AgentProgram = async (agent) => {
  for (;;) {
    const line = parseLine(await agent.nextMessage())
    if ('tool' in line) {
      const [call] = await agent.useTools(line.tool)
      const isGood = call?.result?.isError === false
      agent.say(isGood ? 'The tool has answered.' : 'The tool has answered with an error.')
    } else agent.say('wrong' in line ? line.wrong : HELP)
    agent.endTurn()
  }
}
