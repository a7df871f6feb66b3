/** Ends synchronous work that takes too long. A parser in JavaScript cannot be asked to stop, but V8 can stop it. */
import { types } from 'node:util'
import { createContext, Script } from 'node:vm'

const CALL = new Script('work()')

/** The result of `work`; null when it had not ended after `ms`. What `work` throws is thrown. */
export function withinTime<T>(ms: number, work: () => T): T | null {
  try {
    return CALL.runInContext(createContext({ work }), { timeout: ms }) as T
  } catch (error) {
    // The error comes from the other context, where Error is another class.
    if (types.isNativeError(error) && 'code' in error && error.code === 'ERR_SCRIPT_EXECUTION_TIMEOUT')
      return null
    throw error
  }
}
