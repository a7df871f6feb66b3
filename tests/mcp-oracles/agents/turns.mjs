/**
 * What each agent does with the tools of /mcp, whatever its SDK: a program that works, one that fails, one
 * that draws, and one that is cancelled. A script plays the model, and prints what the model was shown.
 */

/** Where /mcp is, and the API key for it. The test sets both. */
export const url = process.env.COFFERDAM_MCP_URL
export const headers = { Authorization: process.env.COFFERDAM_MCP_AUTHORIZATION }

const python = (source, more = {}) => ({ language: 'python', source, ...more })

/** A PNG image of one red pixel. */
const PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=='
const draw = `import base64; open("plot.png", "wb").write(base64.b64decode("${PNG}"))`

/** Arguments of run_code by the name of the turn. */
const TURNS = {
  works: python('print("six", 6)\n6 * 7'),
  fails: python('raise ValueError("no luck")'),
  draws: python(draw, { artifacts: ['*.png'] }),
}

const FOREVER = python('import time\nprint("begun", flush=True)\ntime.sleep(600)', { timeout_s: 600 })

/** The ID of the one execution that runs, once there is one. */
async function untilRunning() {
  for (const giveUpAt = Date.now() + 60_000; Date.now() < giveUpAt;) {
    const answer = await fetch(new URL('/v1/executions?status=live', url), { headers })
    const { executions } = await answer.json()
    const running = executions.find(({ status }) => status === 'running')
    if (running !== undefined) return running.execution_id
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
  throw new Error('nothing runs')
}

/**
 * Runs every turn and prints one line of JSON. `tools` are the names that the SDK found. `turn(args, signal)`
 * lets the model call run_code once, and resolves with what it was shown of the result.
 */
export async function playTurns({ tools, turn }) {
  const shown = {}
  for (const [name, args] of Object.entries(TURNS))
    shown[name] = await turn(args, new AbortController().signal)
  const stop = new AbortController()
  const outcome = turn(FOREVER, stop.signal).then(
    () => 'answered',
    (error) => error?.name ?? String(error),
  )
  const execution_id = await untilRunning()
  stop.abort()
  console.log(JSON.stringify({ tools, shown, cancelled: { execution_id, outcome: await outcome } }))
}
