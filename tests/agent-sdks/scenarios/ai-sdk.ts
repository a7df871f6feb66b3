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
    // A preliminary result is the output of a program that still runs. The scenario aborts the program of the
    // case `cancelled` once it has printed.
    if (part.output.stdout === 'begun\n' && part.preliminary === true) one.giveUp()
  }
  return seenBy(model)
}

await runCases('ai-sdk', run, { givesUpItself: true })
