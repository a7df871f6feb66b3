import { aiSdkTool } from '@cofferdam/tools/ai-sdk'
import { isStepCount, streamText } from 'ai'
import { runCases, type Case, type Seen } from './cases.ts'
import { scripted, seenBy } from './mock-model.ts'

async function run(one: Case): Promise<Seen | null> {
  const model = scripted(one)
  const { stream } = streamText({
    model,
    tools: { run_code: aiSdkTool(one.tool) },
    prompt: 'Run it.',
    stopWhen: isStepCount(2),
    abortSignal: one.signal,
  })
  for await (const part of stream) {
    if (part.type === 'error') throw part.error
    if (part.type !== 'tool-result' || part.dynamic === true) continue
    // Output of a program that still runs is a preliminary result. The program ends only if it is given up.
    if (part.output.stdout === 'begun\n' && part.preliminary === true) one.giveUp()
  }
  return seenBy(model)
}

await runCases('ai-sdk', run, { givesUpItself: true })
