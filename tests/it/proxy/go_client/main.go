// The Go client amqp091-go, unmodified, in the way of the delayed-message plugin's users.
package main

import (
	"encoding/json"
	"log"
	"os"
	"strconv"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

type message struct {
	Body  string `json:"body"`
	Early bool   `json:"early"`
	Delay any    `json:"delay"`
}

// The types that Go has for a number, and a text, which users of STOMP know; nil is not delayed.
var delays = []struct{ ms any }{{int32(900)}, {int16(100)}, {nil}, {int64(500)}, {"700"}}

func main() {
	url, name := os.Args[1], os.Args[2]
	connection := must(amqp.Dial(url))
	channel := must(connection.Channel())
	arguments := amqp.Table{"x-delayed-type": "direct"}
	check(channel.ExchangeDeclare(name, "x-delayed-message", true, false, false, false, arguments))
	must(channel.QueueDeclare(name, true, false, false, false, nil))
	check(channel.QueueBind(name, "key", name, false, nil))
	check(channel.Confirm(false))
	deliveries := must(channel.Consume(name, "consumer", false, false, false, false, nil))

	start := time.Now()
	var confirms []*amqp.DeferredConfirmation
	for _, delay := range delays {
		confirms = append(confirms, publish(channel, name, delay.ms))
	}
	for _, confirm := range confirms {
		if !confirm.Wait() {
			log.Fatal("a publish was refused")
		}
	}
	seen := take(deliveries, start)
	check(connection.Close())
	check(json.NewEncoder(os.Stdout).Encode(map[string]any{"seen": seen}))
}

func publish(channel *amqp.Channel, name string, delay any) *amqp.DeferredConfirmation {
	body, headers := "0", amqp.Table{}
	switch ms := delay.(type) {
	case nil:
	case string:
		body, headers["x-delay"] = ms, ms
	default:
		body, headers["x-delay"] = strconv.FormatInt(number(ms), 10), ms
	}
	publishing := amqp.Publishing{
		DeliveryMode: amqp.Persistent,
		Headers:      headers,
		Body:         []byte(body),
	}
	return must(channel.PublishWithDeferredConfirm(name, "key", true, false, publishing))
}

func take(deliveries <-chan amqp.Delivery, start time.Time) []message {
	var seen []message
	for len(seen) < len(delays) {
		select {
		case delivery := <-deliveries:
			check(delivery.Ack(false))
			body := string(delivery.Body)
			ms, _ := strconv.Atoi(body)
			early := time.Since(start) < time.Duration(ms)*time.Millisecond
			seen = append(seen, message{body, early, delivery.Headers["x-delay"]})
		case <-time.After(30 * time.Second):
			log.Fatalf("only %v came", seen)
		}
	}
	return seen
}

func number(value any) int64 {
	switch number := value.(type) {
	case int16:
		return int64(number)
	case int32:
		return int64(number)
	case int64:
		return number
	}
	log.Fatalf("no number: %v", value)
	return 0
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func must[T any](value T, err error) T {
	check(err)
	return value
}
