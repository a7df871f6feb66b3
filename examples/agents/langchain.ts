/**
 * LangChain: a tool in the plain loop of model and tools. With `langchain` installed, give it to
 * `createAgent` instead. The model is scripted and needs no key.
 *
 *   npm install @cofferdam/tools @langchain/core
 *
 * Output:
 *   The sum is 5050.
 */
import { langChainTool } from '@cofferdam/tools/langchain'
import { AIMessage, HumanMessage, ToolMessage, type BaseMessage } from '@langchain/core/messages'
import { RunnableLambda } from '@langchain/core/runnables'
import { tool } from '@langchain/core/tools'
import { answerFrom, CALL, codeTool, QUESTION } from './code-tool.ts'

const runCode = tool(...langChainTool(codeTool))

const scripted = RunnableLambda.from(async (messages: BaseMessage[]) => {
  const last = messages.at(-1)
  if (last instanceof ToolMessage) return new AIMessage(answerFrom(last.text))
  return new AIMessage({ content: '', tool_calls: [{ id: CALL.id, name: CALL.name, args: CALL.input }] })
})
const model = scripted // for a real model, such as new ChatAnthropic({ … }).bindTools([runCode])

const messages: BaseMessage[] = [new HumanMessage(QUESTION)]
for (;;) {
  const answer = await model.invoke(messages)
  messages.push(answer)
  if (answer.tool_calls === undefined || answer.tool_calls.length === 0) break
  for (const call of answer.tool_calls) {
    const message: unknown = await runCode.invoke({ ...call, type: 'tool_call' })
    if (message instanceof ToolMessage) messages.push(message)
  }
}
console.log(messages.at(-1)?.text)
