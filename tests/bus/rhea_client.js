// SPDX-License-Identifier: Apache-2.0

// A foreign client for the tests of the embedded bus: rhea, an AMQP 1.0 engine written in
// JavaScript that shares no code with Qpid Proton. `node rhea_client.js SCENARIO HOST PORT`
// plays a scenario, prints what it saw as one line of JSON and exits with 0.
'use strict';
const rhea = require('rhea');

const [scenario, host, port] = process.argv.slice(2);

function connect(options) {
    const container = rhea.create_container();
    return container.connect(Object.assign({ host, port, reconnect: false }, options));
}

function finish(result, ...connections) {
    let open = connections.length;
    const done = () => console.log(JSON.stringify(result));
    if (!open) {
        done();
    }
    for (const connection of connections) {
        connection.on('connection_close', () => {
            open -= 1;
            if (!open) {
                done();
            }
        });
        connection.close();
    }
}

const OUTCOMES = ['accepted', 'rejected', 'released', 'modified'];

function on_outcome(sender, callback) {
    for (const name of OUTCOMES) {
        sender.on(name, (context) => callback(name, context.delivery.remote_state));
    }
}

const scenarios = {
    // The Open frame of the bus.
    open() {
        const connection = connect();
        connection.on('connection_open', () => {
            finish({
                product: connection.properties.product,
                capabilities: connection.offered_capabilities,
                idle: connection.remote.open.idle_time_out,
                frame: connection.max_frame_size,
            }, connection);
        });
    },

    // A call: request by a named sender, reply through the anonymous relay to a dynamic address.
    call() {
        const server = connect(), client = connect();
        const requests = server.open_receiver('service');
        const relay = server.open_sender({ target: {} });
        requests.on('message', (context) => {
            relay.send({
                to: context.message.reply_to,
                correlation_id: context.message.message_id,
                body: 'pong ' + context.message.body,
            });
        });
        const replies = client.open_receiver({ source: { dynamic: true } });
        replies.on('receiver_open', () => {
            const sender = client.open_sender('service');
            sender.once('sendable', () => sender.send({
                message_id: 'id-1', reply_to: replies.source.address, body: 'ping',
            }));
        });
        replies.on('message', (context) => finish({
            body: context.message.body,
            correlation: context.message.correlation_id,
            dynamic: replies.source.address,
        }, client, server));
    },

    // What the sender hears when the receiver accepts, rejects, releases and modifies. One after
    // the other: rhea 3 merges different outcomes that it sends in one go.
    outcomes() {
        const consumer = connect(), producer = connect();
        const heard = [];
        const receiver = consumer.open_receiver(
            { source: 'outcomes', autoaccept: false, credit_window: 10 });
        receiver.on('message', (context) => {
            const delivery = context.delivery;
            const actions = {
                accept: () => delivery.accept(),
                reject: () => delivery.reject({ condition: 'test:bad', description: 'no good' }),
                release: () => delivery.release({ delivery_failed: false }),
                modify: () => delivery.modified(
                    { delivery_failed: true, undeliverable_here: true }),
            };
            actions[context.message.body]();
        });
        const sender = producer.open_sender('outcomes');
        const bodies = ['accept', 'reject', 'release', 'modify'];
        sender.once('sendable', () => sender.send({ body: bodies[0] }));
        on_outcome(sender, (name, state) => {
            const error = state && state.error;
            heard.push(error ? [name, error.condition, error.description] : [name]);
            if (heard.length < bodies.length) {
                sender.send({ body: bodies[heard.length] });
            } else {
                finish({ heard }, producer, consumer);
            }
        });
    },

    // A sender waits without credit until a receiver comes.
    credit() {
        const connection = connect();
        const sender = connection.open_sender('credit');
        const seen = [];
        sender.on('sender_open', () => {
            seen.push(sender.credit);
            connection.open_receiver('credit');
        });
        sender.once('sendable', () => {
            seen.push(sender.credit);
            finish({ seen }, connection);
        });
    },

    // Every subscriber of a multicast address gets the message.
    multicast() {
        const connection = connect();
        const got = [];
        let open = 0;
        const address = 'openstack.org/om/rpc/multicast/exchange/topic';
        for (let i = 0; i < 3; i++) {
            const receiver = connection.open_receiver({ source: address, name: 'r' + i });
            receiver.on('message', (context) => got.push(context.message.body + i));
            receiver.on('receiver_open', () => {
                open += 1;
                if (open === 3) {
                    const sender = connection.open_sender(address);
                    sender.once('sendable', () => sender.send({ body: 'all' }));
                    on_outcome(sender, (name) => finish({ got: got.sort(), name }, connection));
                }
            });
        }
    },

    // A message is stored, released, comes again with its header changed, and is accepted.
    redelivery() {
        const connection = connect();
        const sender = connection.open_sender('redelivery');
        const seen = [];
        sender.once('sendable', () => sender.send(
            { body: { list: [1, 'two', null] }, durable: true, application_properties: { a: 1 } }));
        on_outcome(sender, () => {
            const receiver = connection.open_receiver(
                { source: 'redelivery', autoaccept: false, credit_window: 10 });
            receiver.on('message', (context) => {
                const { body, durable, delivery_count, first_acquirer } = context.message;
                const properties = context.message.application_properties;
                seen.push({ body, durable, delivery_count: delivery_count || 0, properties,
                    first_acquirer: first_acquirer !== false });
                if (seen.length < 3) {
                    context.delivery.modified(
                        { delivery_failed: seen.length === 2, undeliverable_here: false });
                } else {
                    context.delivery.accept();
                    finish({ seen }, connection);
                }
            });
        });
    },

    // A sender to a full queue has no credit until somebody drains the queue.
    watermarks() {
        const connection = connect();
        const sender = connection.open_sender('watermarks');
        let sent = 0, accepted = 0, before = null;
        sender.on('sendable', () => {
            // rhea's sendable() does not count what is queued but not yet written.
            for (let room = sender.credit + sender.delivery_count - sent;
                room > 0 && sent < 8; room--) {
                sender.send({ body: sent });
                sent += 1;
            }
        });
        on_outcome(sender, () => {
            accepted += 1;
            if (accepted === 4 && before === null) {
                before = { sent, credit: sender.credit };
                const receiver = connection.open_receiver('watermarks');
                const got = [];
                receiver.on('message', (context) => {
                    got.push(context.message.body);
                    if (got.length === 8) {
                        finish({ before, got }, connection);
                    }
                });
            }
        });
    },

    // A wrong and a right password.
    password() {
        const wrong = connect({ username: 'joe', password: 'wrong' });
        wrong.on('connection_error', () => {});
        wrong.on('disconnected', (context) => {
            const right = connect({ username: 'joe', password: 'secret' });
            right.on('connection_open', () => finish(
                { wrong: context.error ? context.error.message : 'closed', right: true }, right));
        });
        wrong.on('connection_open', () => finish({ wrong: 'open' }, wrong));
    },

    large() {
        const connection = connect();
        const receiver = connection.open_receiver('large');
        const body = 'x'.repeat(3000000);
        receiver.on('message', (context) => finish(
            { same: context.message.body === body }, connection));
        const sender = connection.open_sender('large');
        sender.once('sendable', () => sender.send({ body }));
    },
};

scenarios[scenario]();
