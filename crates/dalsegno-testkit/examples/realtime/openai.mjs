// Holds a call by the official client for Node: takes the address of the provider and the number of turns, of which each has a tool.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import net from 'node:net';
import OpenAI from 'openai';
import { OpenAIRealtimeWS } from 'openai/realtime/ws';

const [base, turns] = process.argv.slice(-2);
// The client speaks TLS only: here its frames go over plain TCP.
const createConnection = ({ port, host }) => net.connect(port, host);
const client = new OpenAI({ apiKey: 'none', baseURL: base });
const connection = new OpenAIRealtimeWS({ model: 'gpt-realtime-2.1', options: { createConnection } }, client);
const said = [];
connection.on('error', (error) => { throw error; });
connection.on('response.output_text.done', (event) => said.push(event.text));
const until = (kind) => new Promise((done) => {
  const take = (event) => { connection.off(kind, take); done(event); };
  connection.on(kind, take);
});

await until('session.created');
const tool = { type: 'function', name: 'book__find', parameters: { type: 'object', properties: {} } };
connection.send({ type: 'session.update', session: { type: 'realtime', output_modalities: ['text'], instructions: 'You are the desk.', tools: [tool] } });
await until('session.updated');
for (let turn = 0; turn < Number(turns); turn += 1) {
  const asked = until('response.output_item.done');
  const first = until('response.done');
  const message = { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'A table?' }] };
  connection.send({ type: 'conversation.item.create', item: message });
  connection.send({ type: 'response.create' });
  const call = (await asked).item;
  assert.deepEqual([call.type, call.name, call.status], ['function_call', 'book__find', 'completed']);
  const output = { type: 'function_call_output', call_id: call.call_id, output: 'at eight' };
  connection.send({ type: 'conversation.item.create', item: output });
  assert.equal((await first).response.status, 'completed');
  const second = until('response.done');
  connection.send({ type: 'response.create' });
  assert.equal((await second).response.status, 'completed');
}
assert.deepEqual(said, Array(Number(turns)).fill('There is one at eight.'));
connection.close();
console.log(JSON.parse(readFileSync('node_modules/openai/package.json', 'utf8')).version);
